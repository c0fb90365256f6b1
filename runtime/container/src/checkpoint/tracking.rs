//! Memory that is saved in several dumps: `--pre-dump`, `--parent-path`, `--auto-dedup`.
//!
//! The kernel marks pages that are written to (CONFIG_MEM_SOFT_DIRTY). A tracked dump with a parent saves the marked
//! pages; all other pages are in the parent, an earlier dump. Every tracked dump clears the marks. The parent must
//! therefore be the container's latest tracked dump, and no later dump may have failed. Otherwise changes would be
//! lost, which neither criu nor the kernel notices. A random token identifies the latest tracked dump: the same token
//! is in the container's directory and in the directory of that dump's images.

use alloc::format;
use alloc::string::{String, ToString};

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use sys::Context;

use super::images::Directory;
use super::refused::refuse;
use super::session::Session;
use crate::directory::TryClone;
use crate::path::absolute;
use crate::{Container, Error};

/// The name of the token's file, in the container's directory and in the directory of images.
const TOKEN: &str = "tracked";
/// The length of a token.
const LENGTH: usize = 32;

/// How the memory of a container is saved in several dumps.
#[derive(Debug, Clone, Default)]
pub struct Tracking<'a> {
    /// Whether only memory is saved, for a later dump, while the container keeps running.
    pub pre_dump: bool,
    /// The directory of the latest tracked dump, relative to the directory of images. Only memory that has changed
    /// since that dump is saved.
    pub parent: Option<&'a str>,
    /// Whether pages that this dump saves again are freed in the images of earlier dumps.
    pub auto_dedup: bool,
}

impl Tracking<'_> {
    /// Returns whether the dump is tracked, so that it clears the kernel's marks of written pages.
    pub(super) fn is_tracked(&self) -> bool {
        self.pre_dump || self.parent.is_some()
    }

    /// Refuses options that are not supported in this case.
    ///
    /// # Errors
    /// If the kernel marks no pages, or if another property of the container or the command excludes an option.
    pub(super) fn check(
        &self,
        session: &mut Session,
        lazy: bool,
        in_user_namespace: bool,
    ) -> Result<(), Error> {
        let option = match self {
            Self { pre_dump: true, .. } => "pre-dump",
            Self { parent: Some(_), .. } => "parent-path",
            Self { auto_dedup: true, .. } => "auto-dedup",
            _ => return Ok(()),
        };
        if !session.features()?.mem_track {
            return Err(Error::Text(format!(
                "--{option}: criu is missing the feature mem_dirty_track: this kernel cannot track \
                 changed memory (CONFIG_MEM_SOFT_DIRTY)"
            )));
        }
        if lazy {
            return refuse("checkpoint", &format!("lazy pages with --{option}"));
        }
        match in_user_namespace {
            true => {
                refuse("checkpoint", &format!("a container in a user namespace with --{option}"))
            }
            false => Ok(()),
        }
    }

    /// Checks that the parent's directory exists and is the caller's own. The directory `images`, to which its path is
    /// relative, need not exist yet.
    ///
    /// # Errors
    /// If the parent is not valid; the message names the reason.
    pub(super) fn find_parent(&self, images: &str) -> Result<(), Error> {
        let Some(path) = self.parent else { return Ok(()) };
        if path.starts_with('/') {
            return Err(Error::text("--parent-path must be relative"));
        }
        let found = match Directory::open(images) {
            Ok(images) => images.open_at(path),
            Err(_) => Directory::open(&plan::clean(&format!("{}/{path}", absolute(images)?))),
        };
        found.map(drop).map_err(|error| invalid(&error))
    }

    /// Checks that the parent is the latest tracked dump of the container, and complete.
    ///
    /// # Errors
    /// If the parent is not valid; the message names the reason.
    pub(super) fn check_parent(
        &self,
        container: &Container,
        images: &Directory,
    ) -> Result<(), Error> {
        let Some(path) = self.parent else { return Ok(()) };
        let parent = images.open_at(path).map_err(|error| invalid(&error))?;
        let earlier = parent.parents().map_err(|error| invalid(&error))?;
        for dump in [&parent].into_iter().chain(&earlier) {
            if dump.is(images)? {
                return Err(invalid(&format!("{} is the directory of --image-path", dump.path)));
            }
            dump.check_dump().map_err(|error| invalid(&error))?;
            if self.auto_dedup && dump.has_processes() {
                return Err(invalid(&format!(
                    "{} has a checkpoint, and --auto-dedup would remove a part of its memory",
                    dump.path
                )));
            }
        }
        match (token(&own(container)?)?, token(&parent)?) {
            (Some(latest), Some(of_parent)) if latest == of_parent => Ok(()),
            _ => Err(invalid(&format!(
                "{} is not the latest dump of this container's memory, or a dump has failed since then: make \
                 another --pre-dump, without --parent-path",
                parent.path
            ))),
        }
    }

    /// Removes the container's token before a tracked dump. If the dump fails, no earlier dump can be a parent any
    /// more.
    pub(super) fn begin(&self, container: &Container) -> Result<(), Error> {
        match self.is_tracked() {
            true => own(container)?.remove(TOKEN),
            false => Ok(()),
        }
    }

    /// Stores a new token after a successful tracked dump of a container that keeps running. This dump can be the
    /// parent of the next one.
    pub(super) fn end(&self, container: &Container, images: &Directory) -> Result<(), Error> {
        if !self.is_tracked() {
            return Ok(());
        }
        let mut bytes = [0; LENGTH / 2];
        getrandom(&mut bytes, GetRandomFlags::empty()).context("getrandom", "")?;
        let token = format!("{:032x}", u128::from_ne_bytes(bytes));
        images.write(TOKEN, token.as_bytes())?;
        own(container)?.write(TOKEN, token.as_bytes())
    }
}

/// Returns the container's own directory.
fn own(container: &Container) -> Result<Directory, Error> {
    Ok(Directory { fd: container.directory.try_clone_fd()?, path: container.id().to_string() })
}

/// Reads the token in a directory.
fn token(directory: &Directory) -> Result<Option<String>, Error> {
    match directory.read(TOKEN, LENGTH + 1) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok().filter(|token| token.len() == LENGTH)),
        Err(Error::System(error)) if error.errno == Errno::NOENT => Ok(None),
        Err(error) => Err(error),
    }
}

fn invalid(why: &dyn ToString) -> Error {
    Error::Text(format!("invalid --parent-path: {}", why.to_string()))
}
