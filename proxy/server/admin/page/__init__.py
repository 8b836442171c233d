"""The page that the admin port serves to browsers, with no asset from anywhere else.

files.py    hands out the files
page.html   what there is
page.css    what it looks like
*.js        modules of plain JavaScript: page.js begins, and says what the others are for
"""
