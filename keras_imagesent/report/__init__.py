"""The pages and pictures that people look at."""
