"""What runs on compute nodes, one process on each: scripts for any Python from 3.6 on.

Standard library only, and no import of ours but from this folder: ``python3 pairs.py plan.json``.
"""
