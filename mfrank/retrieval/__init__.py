"""What is asked of fitted factors: exact lists under filters, similar rows, scores."""
