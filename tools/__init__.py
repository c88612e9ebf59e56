"""Programs for those who release the package. They are in the checkout, not in the wheel."""
