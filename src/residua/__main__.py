"""`python -m residua`."""

from residua.cli import main

if __name__ == "__main__":
    main()
