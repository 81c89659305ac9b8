"""Profiles of programs: where time and memory go, as a page, a trace and JSON.

``session.profile`` makes one of a few runs, the command ``popart profile`` of a model, and the environment variable
``POPART_PROFILE`` of every session (guide "Profiling"). All of them give what `pva.Report` holds:

- `facts` reads the JSON of a report into steps, layers, threads and memory;
- `page` writes the page, one HTML file that loads nothing, from `pieces`;
- `model` reads what a model of IPUs estimates, and `model_page` shows it on the page;
- `trace` writes a trace for Perfetto and ``chrome://tracing``;
- `machine` measures what the machine can do at most, so that steps can be compared with it;
- `recording` runs and records sessions.
"""
