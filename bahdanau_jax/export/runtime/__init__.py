"""The Python files of an exported folder, which import nothing of the package."""
