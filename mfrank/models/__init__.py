"""The estimators, one file or folder each, and the options, saving and printing they share."""
