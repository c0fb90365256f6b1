//! Moves network devices of the host to the container (`linux.netDevices`).
//!
//! All devices are looked up, and their new names checked, before the first device is moved. After a failed move, the
//! device may be in the container nevertheless, because the kernel first moves the device and then renames it. A move
//! removes the device's addresses and sets it down. So permanent addresses of global scope are added again, and the
//! device is set up. When the namespace ends, the kernel returns physical devices to the host and removes virtual ones.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use plan::step::NetDevice;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use sys::Context;
use sys::rtnetlink::{Address, Socket};

/// The name of the operation in errors.
const MOVE: &str = "move netDevice";
/// The number of values that are tried for `%d`.
const NUMBERS: u32 = 1 << 15;

/// An existing device.
struct Found<'a> {
    device: &'a NetDevice,
    index: u32,
    addresses: Vec<Address>,
}

/// Moves the devices to a network namespace.
///
/// # Errors
/// ENODEV for a missing device, EEXIST for a name that is taken in the container; those of rtnetlink(7).
pub(crate) fn move_all(devices: &[NetDevice], namespace: BorrowedFd<'_>) -> Result<(), sys::Error> {
    let host = Socket::open().context(MOVE, "(rtnetlink socket)")?;
    let inside = Socket::open_in(namespace).context(MOVE, "(rtnetlink socket inside)")?;
    let find = |device| Found::new(device, &host, &inside);
    let found: Result<Vec<_>, _> = devices.iter().map(find).collect();
    found?.iter().try_for_each(|found| found.move_to(namespace, &host, &inside))
}

impl<'a> Found<'a> {
    fn new(device: &'a NetDevice, host: &Socket, inside: &Socket) -> Result<Self, sys::Error> {
        let name = &device.name;
        let missing = format!("{name}: link not found for interface {name} on runtime namespace");
        let index = host.index(name).context(MOVE, missing)?;
        let addresses =
            host.addresses(index).context(MOVE, format!("{name}: fail to get ip addresses"))?;
        let found = Self { device, index, addresses };
        found.new_name(inside)?;
        Ok(found)
    }

    /// Returns the device's name in the container.
    fn new_name(&self, inside: &Socket) -> Result<Cow<'a, str>, sys::Error> {
        free_name(&self.device.inside, inside).context(MOVE, self.object("name not available"))
    }

    fn move_to(
        &self,
        namespace: BorrowedFd<'_>,
        host: &Socket,
        inside: &Socket,
    ) -> Result<(), sys::Error> {
        let new_name = self.new_name(inside)?;
        host.move_to(self.index, namespace, &new_name)
            .context(MOVE, self.object("fail to move network device"))?;
        // The device may have another index in its new namespace.
        let index = inside.index(&new_name).context(MOVE, self.object("link not found"))?;
        for address in self.addresses.iter().filter(|address| address.is_permanent_and_global()) {
            let failure = self.object("fail to set up address");
            inside.add_address(index, address).context(MOVE, failure)?;
        }
        inside.set_up(index).context(MOVE, self.object("fail to set up interface"))
    }

    /// Returns the text that names this device and its new name in an error, followed by `what`.
    fn object(&self, what: &str) -> String {
        let NetDevice { name, inside } = self.device;
        format!("{name} to {inside} in the container: {what}")
    }
}

/// Returns `wanted`, with `%d` replaced by the first number that gives a free name in the container. (If the kernel
/// chose the number, this process would not know the name.)
fn free_name<'a>(wanted: &'a str, inside: &Socket) -> Result<Cow<'a, str>, Errno> {
    let is_free = |name: &str| match inside.index(name) {
        Ok(_) => Ok(false),
        Err(Errno::NODEV) => Ok(true),
        Err(errno) => Err(errno),
    };
    if !wanted.contains("%d") {
        return if is_free(wanted)? { Ok(wanted.into()) } else { Err(Errno::EXIST) };
    }
    for number in 0..NUMBERS {
        let name = wanted.replacen("%d", &format!("{number}"), 1);
        if is_free(&name)? {
            return Ok(name.into());
        }
    }
    Err(Errno::NFILE)
}
