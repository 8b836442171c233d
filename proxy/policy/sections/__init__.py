"""The sections of a policy file, one file each, named like the key that each is read from."""
