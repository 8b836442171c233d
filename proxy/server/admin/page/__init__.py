"""The page that the admin port serves to browsers. It loads nothing from other hosts and has no build step.

files.py      serves the files
page.html     the structure
page.css      the style
page.js       the start; it names the other modules of plain JavaScript
"""
