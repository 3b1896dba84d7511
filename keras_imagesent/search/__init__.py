"""Snippet -> regions and photos, photo -> sentences, over a collection."""
