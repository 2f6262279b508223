/* SPDX-License-Identifier: BSD-2-Clause */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "xsk.h"

bool xsk_driver_reads_late(const char *driver, const char *release)
{
	unsigned int major = 0, minor = 0;

	if (strcmp(driver, "virtio_net"))
		return false;
	if (sscanf(release, "%u.%u", &major, &minor) != 2)
		return true;
	return major < 6 || (major == 6 && minor < 18);
}

bool xsk_reads_late(const char *interface)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq request = { 0 };
	struct utsname host;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return true;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	request.ifr_data = (char *)&info;
	rc = ioctl(fd, SIOCETHTOOL, &request);
	close(fd);
	/* Only a driver that names itself can be virtio_net. */
	if (rc < 0)
		return false;
	uname(&host);
	return xsk_driver_reads_late(info.driver, host.release);
}
