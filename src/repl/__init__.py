"""The Python that runs inside every sandbox; see main.py."""
