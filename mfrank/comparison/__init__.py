"""Models side by side on one split, implicit among them: alternating, measured alike."""
