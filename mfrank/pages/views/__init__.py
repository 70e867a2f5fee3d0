"""The pages: each is a function of the world and of what was asked, and returns a plain dict.

The dict is the page's JSON, and all that its template sees.
"""
