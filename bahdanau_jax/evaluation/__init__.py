"""What a translation is worth, where the model looked, and pictures of both: NumPy in."""
