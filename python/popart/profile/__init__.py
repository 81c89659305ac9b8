"""Profiles of programs: where time and memory go, as a page, a trace and JSON.

``session.profile`` profiles a few runs, the command ``popart profile`` a model, and the environment variable
``POPART_PROFILE`` every session (guide "Profiling"). All of them give the contents of a `pva.Report`:

- `facts` reads the JSON of a report into steps, layers, threads and memory;
- `page` writes the page, one HTML file that loads nothing, from `pieces`;
- `model` reads the estimates of a model of IPUs, and `model_page` shows them on the page;
- `trace` writes a trace for Perfetto and ``chrome://tracing``;
- `machine` measures the limits of the machine, with which steps are compared;
- `recording` runs and records sessions.
"""
