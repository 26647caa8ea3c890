"""``assay lock``: checks that the locks of the Spack stacks match their manifests.

The reference environment is ``spack.yaml`` at the top of the repository. It belongs to the site
that it includes. Other sites have their environment in ``site-config/<site>/spack/env/``. Each
environment has a lock, ``spack.lock``, and a seal of the lock, ``spack.lock.seal.yaml``. Spack
writes both (`make lock`). ``docs/stack.md`` explains them.
"""
