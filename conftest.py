"""What the tests do not collect."""

from importlib.util import find_spec

# Its kernels cannot be read without Triton.
collect_ignore = [] if find_spec("triton") else ["src/sparselens/_closed_form_triton.py"]
