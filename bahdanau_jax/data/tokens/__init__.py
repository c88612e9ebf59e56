"""Text to ids and back: cleaning, tokenisers and vocabularies."""
