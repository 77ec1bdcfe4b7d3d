"""Server on one host, clients on many: what starts, watches and ends them.

roster           hosts.toml: which host does what, at which address
certificates     TLS of one run: an authority of its own, a certificate per role
agent            on each host: programs, a lease, an echo for its clock
carrier          an agent as `connlab.drive.host.Host`, carried by Dask distributed
remote_programs  programs on several hosts that begin at one moment
group            several client hosts as one, with one report
turning          clients on several hosts that take turns at the same moments
merged_turns     what they saw, as if they were one client
remote           the hosts of a roster as the location of a sweep
places           one server, its clients beside it or on so many hosts, in one sweep
starting         scheduler and workers, over SSH
measuring        one trial over them
checking         versions, limits, calls and clocks of each
lab              hosts of network namespaces, for tests and for a look
lab_guard        takes a lab down when its owner has died
"""
