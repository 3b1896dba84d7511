"""Photos and sentences: align words with regions, caption photos and regions, serve both."""

__version__ = "0.1.0"
