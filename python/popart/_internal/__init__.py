"""Names below the public interface that published programs import."""
