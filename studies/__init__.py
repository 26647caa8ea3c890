"""Studies: what only serves one publication, beside the suite and not a part of it.

A folder is a study: its tests for ReFrame, its library, the list of its figures, and its page.
Nothing of the suite imports a study. ReFrame loads a file of tests together with the packages
around it, so the file imports its library relatively, and nothing is installed. docs/studies.md
shows all studies.
"""
