"""Internal names that published programs import."""
