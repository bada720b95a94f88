"""The network of a pod: a namespace of its own, on the bridge of this machine."""

from cell import BRIDGE, NODE_ADDRESS, PODS, ip


class PodNetwork:
    """An address that only this pod has."""

    def __init__(self, number):
        """Make the network. `number`: 2 to 250."""
        self.name = f"pod{number}"
        self.address = f"{PODS}.{number}"
        ip("netns", "add", self.name)
        ip("link", "add", f"v{self.name}", "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", f"v{self.name}", "master", BRIDGE, "up")
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")
        ip("-n", self.name, "route", "add", "default", "via", NODE_ADDRESS)

    def inside(self):
        """Return the words before a command that run it there."""
        return ["nsenter", f"--net=/run/netns/{self.name}"]

    def remove(self):
        """Remove it. Its processes must have ended."""
        ip("netns", "del", self.name)
