"""The pages: each is a function of the site and the request that returns a dict.

The dict is the page's JSON, and all that its template reads.
"""
