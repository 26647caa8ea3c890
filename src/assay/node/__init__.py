"""Scripts that run on compute nodes, one process on each, with Python 3.6 or newer.

They import only the standard library and files of this folder: ``python3 pairs.py plan.json``.
"""

#: A program that is on PATH if the stack is an image. It starts any command inside the image.
IN_IMAGE = "in-image"
