"""Hosts for what a loopback cannot fake: network namespaces with sshd, real interfaces, a real MTU and real pings.

`raised(home, count)` gives a rack of them; `obstacle()` says why this machine cannot. Root only, Linux only.
"""

from rehearsal.hosts.machine import obstacle
from rehearsal.hosts.network import Cable
from rehearsal.hosts.rack import Host, Rack, raised
from rehearsal.hosts.relay import Relay, Weather

__all__ = ["Cable", "Host", "Rack", "Relay", "Weather", "obstacle", "raised"]
