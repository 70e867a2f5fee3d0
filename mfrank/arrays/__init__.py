"""Arrays of any library, sparse rows, random numbers, and argument checks."""
