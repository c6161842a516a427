"""The kernel's own isolation, asked for by the process that is to be isolated.

Three layers, none of which needs root or a package: user namespaces (own processes, network,
mounts, IPC), Landlock (which files may be read; none may be written), and seccomp (which system
calls exist at all). Each is one-way: what a process gave up, it and its children never get back.

Linux on x86-64 and aarch64 (the numbers of the latter are not tested yet).

The zygote loads this folder inside the jail, by its path, where `maxk` cannot be imported. So its
modules import the standard library and each other, by relative imports, and nothing else. The
zygote imports each of them before Landlock hides their files; so none is imported here or later.
"""
