"""`python -m sparselens` is the same as `sparselens`."""

from sparselens.cli.main import main

if __name__ == "__main__":
    main()
