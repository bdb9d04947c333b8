"""`python -m leakbound`."""

from leakbound.cli import main

if __name__ == "__main__":
    main()
