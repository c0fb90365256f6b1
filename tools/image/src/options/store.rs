//! The option for the location of the store, which all commands have.

use crate::error::{Error, Result};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::path::{Path, PathBuf};

/// The location of the store.
#[derive(Debug, Args)]
pub struct StoreOptions {
    /// The store, by default /var/lib/dayfly for root, and dayfly in $XDG_DATA_HOME for a user
    #[arg(long, value_name = "DIR", env = "DAYFLY_STORE", value_parser = path())]
    pub store: Option<PathBuf>,
}

/// Returns a parser of paths that accepts an empty one, because an empty variable counts as unset.
pub fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

impl StoreOptions {
    /// Returns the directory that the option or the variable names, if it names one.
    fn named(&self) -> Option<&Path> {
        // An empty variable counts as unset.
        self.store.as_deref().filter(|store| !store.as_os_str().is_empty())
    }

    /// Returns whether the store is the default one.
    pub fn is_default(&self) -> bool {
        self.named().is_none()
    }

    /// Returns the store's absolute directory.
    ///
    /// # Errors
    /// No default location is known.
    pub fn directory(&self) -> Result<PathBuf> {
        match self.named() {
            Some(store) => std::path::absolute(store).map_err(Error::at("find", store)),
            None => rootfs::places::store(|name| std::env::var(name).ok())
                .map(PathBuf::from)
                .map_err(|reason| Error::Unfit(reason.to_owned())),
        }
    }
}
