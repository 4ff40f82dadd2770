# SPDX-License-Identifier: Apache-2.0
"""`python -m tenon ...` is the command `tenon ...`; --cmake-dir, --include-dir, --plugin-dir and --share-dir print a
folder of the installation."""

from tenon_command import main

if __name__ == "__main__":
    main()
