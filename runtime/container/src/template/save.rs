//! Templates on disk: a template is saved when its warm-up is over, and made again from the images, also after a reboot.
//!
//! The program of a template that is to be saved is the first process of its container. In place of the socket of
//! requests, it has one to the runtime:
//!
//! ```text
//! program → runtime  P  my warm-up is over; the numbers of the interpreter's own descriptors (4 bytes each)
//! ```
//!
//! Then the library gives the number of that socket to one which listens at an abstract address, the only socket that
//! is left, and waits for a call. At a restore, criu gives the number to the socket of requests. The library finds that
//! the address is another one, makes a child which serves requests as any other template does, and remains as its reaper.
//! Nothing in the images depends on the host, its boot or the container's id.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, readlink, stat};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use sys::Context;
use sys::wait::{Deadline, ready};

use super::{TemplateUse, list};
use crate::bundle::Bundle;
use crate::checkpoint::{Saved, check_place, leave_mounts};
use crate::{
    CheckpointOptions, Container, CreateOptions, CriuOptions, Error, RestoreOptions, RunOptions,
    Store, Tracking, Warn, cache, cgroups_mode, create,
};

impl Store {
    /// Runs the warm-up of a template, and saves the template to a directory, for [`Self::restore_template`]. No
    /// container is left.
    ///
    /// # Errors
    /// As [`crate::run`] and [`Container::checkpoint`]; if the program does not wait for requests within `time`; if it
    /// has something open that its children must not share.
    pub fn save_template(
        &self,
        options: &RunOptions<'_>,
        images: &str,
        time: Duration,
    ) -> Result<(), Error> {
        let (id, warn) = (options.create.id, options.create.warn);
        Saved::begin(images)?;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .context("socketpair", "template")?;
        let template = Some(TemplateUse::Save { socket: theirs.as_fd() });
        let create = CreateOptions { template, ..options.create.clone() };
        create::run(self, &RunOptions { create, ..options.clone() })?;
        drop(theirs);
        let container = self.container(id)?;
        let saved = await_end_of_warm_up(&ours, time, id)
            .and_then(|own| {
                check_processes(&container)?;
                check_root(&container, options.create.config)?;
                socket_of(&container, &own)
            })
            .and_then(|socket| {
                Saved::forget(images)?;
                leave_mounts(&container.init().ok_or(Error::NotRunning)?)?;
                self.container(id)?.checkpoint(&checkpoint(&options.create, images)?)?;
                Saved::write(images, socket)
            });
        if saved.is_err()
            && let Ok(container) = self.container(id)
        {
            container.delete(true, warn)?;
        }
        saved
    }

    /// Makes a template from the directory of [`Self::save_template`].
    ///
    /// # Errors
    /// As [`crate::restore`]; if another user could have changed the directory; if it has another template.
    pub fn restore_template(
        &self,
        create: CreateOptions<'_>,
        images: &str,
        time: Duration,
    ) -> Result<(), Error> {
        check_place(images)?;
        let options = RestoreOptions {
            create,
            criu: criu(images)?,
            detach: true,
            no_subreaper: true,
            lsm_profile: None,
            lsm_mount_context: None,
            tcp_close: false,
            eager: true,
            timeout: Some(time),
            waits: false,
        };
        match crate::restore(self, &options) {
            // The names of criu's files for x86 and other CPUs.
            Err(error) if error.to_string().contains("/cpu.c:") => Err(Error::Text(format!(
                "the template in {images} was saved on another kind of CPU: save it on this one ({error})"
            ))),
            result => result.map(drop),
        }
    }
}

fn criu(images: &str) -> Result<CriuOptions<'_>, Error> {
    Ok(CriuOptions { images, cgroups_mode: cgroups_mode(None)?, ..CriuOptions::default() })
}

fn checkpoint<'a>(
    create: &CreateOptions<'a>,
    images: &'a str,
) -> Result<CheckpointOptions<'a>, Error> {
    Ok(CheckpointOptions {
        criu: criu(images)?,
        config: create.config,
        leave_running: false,
        tcp_skip_in_flight: false,
        link_remap: false,
        tracking: Tracking::default(),
        allowed: Vec::new(),
        record: false,
        env: create.env,
        warn: create.warn,
    })
}

/// Waits until the program has told that its warm-up is over, and has closed the socket. Returns the numbers of the
/// interpreter's own descriptors.
fn await_end_of_warm_up(socket: &OwnedFd, time: Duration, name: &str) -> Result<Vec<u32>, Error> {
    let (mut own, deadline) = (None, Deadline::after(time));
    loop {
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        if ready(&mut fds, deadline) != Ok(true) {
            return Err(list::silent(name, time));
        }
        let mut message = [0; 256];
        let (_, length) = recv(socket, &mut message, RecvFlags::DONTWAIT).unwrap_or_default();
        match (message.get(..length), &own) {
            (Some([b'P', numbers @ ..]), None) => {
                let numbers = numbers.as_chunks().0.iter();
                own = Some(numbers.map(|bytes| u32::from_le_bytes(*bytes)).collect());
            }
            (Some([]), Some(_)) => return Ok(own.unwrap_or_default()),
            _ => return Err(list::ended(name)),
        }
    }
}

/// Refuses a template with other processes than the program.
fn check_processes(container: &Container) -> Result<(), Error> {
    let (own, _) = container.init().ok_or(Error::NotRunning)?;
    let others = container.pids()?.into_iter().find(|pid| *pid != own.as_raw_pid());
    others.map_or(Ok(()), |pid| {
        let name = sys::fs::read_text(format!("/proc/{pid}/comm").as_str()).unwrap_or_default();
        Err(unfit(container, &format!("its warm-up has started {}", name.trim())))
    })
}

/// Refuses a root filesystem in which criu could not make the directory that it needs for a moment.
fn check_root(container: &Container, config: Option<&str>) -> Result<(), Error> {
    let root = &container.record.rootfs;
    let bundle = Bundle::open(&container.record.bundle, config)?;
    let is_read_only = bundle.spec(Warn::default())?.root.is_some_and(|root| root.readonly);
    match is_read_only && stat(format!("{root}/tmp").as_str()).is_err() {
        true => {
            Err(unfit(container, "criu needs a directory /tmp in its read-only root filesystem"))
        }
        false => Ok(()),
    }
}

/// Returns criu's name of the program's socket. Refuses descriptors whose state all children would share with each
/// other, and with those of other restores.
fn socket_of(container: &Container, own: &[u32]) -> Result<String, Error> {
    let (pid, _) = container.init().ok_or(Error::NotRunning)?;
    let directory = format!("/proc/{}/fd", pid.as_raw_nonzero());
    let listed = sys::fs::open_dir(CWD, directory.as_str()).context("open", &directory)?;
    let mut sockets = Vec::new();
    for name in cache::names(listed.as_fd()).context("getdents64", &directory)? {
        let name = name.to_string_lossy();
        let number = name.parse().unwrap_or(0);
        let link =
            readlink(format!("{directory}/{name}"), Vec::new()).context("readlink", &directory)?;
        let link = link.to_string_lossy();
        match link.split_once(':') {
            _ if own.contains(&number) => {}
            Some(("socket", _)) => sockets.push((number, link.to_string())),
            Some(("pipe" | "anon_inode", _)) => return Err(open(container, number, &link)),
            _ => {}
        }
    }
    // The library's is the one that it has opened last: all others are the program's.
    match sockets.as_slice() {
        [(_, name)] => Ok(name.clone()),
        [] => Err(Error::NotRunning),
        [.., (number, link)] => Err(open(container, *number, link)),
    }
}

fn open(container: &Container, number: u32, link: &str) -> Error {
    unfit(
        container,
        &format!("its warm-up has left descriptor {number} open, {link}: open it after wait()"),
    )
}

fn unfit(container: &Container, why: &str) -> Error {
    Error::Text(format!("template {} cannot be saved: {why}", container.id()))
}
