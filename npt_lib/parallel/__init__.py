"""More cores: the parts of a batch on a thread each, and memory that is kept for the next step."""
