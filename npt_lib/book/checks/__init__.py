"""The exercises of the book, one file for each chapter: ``ch01`` holds the list ``EXERCISES``."""
