"""Where the commands of the wheel begin. This package loads nothing but Python's own modules.

A command is one line of ``[project.scripts]`` in pyproject.toml: its name, and that name with ``_`` in `modules`, if it
is a module of Python, or in `programs`, if it is a compiled program.
"""
