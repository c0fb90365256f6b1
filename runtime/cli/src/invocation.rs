//! The input of a command.

use alloc::string::{String, ToString};
use core::cell::RefCell;

use container::{Container, Store, Trace, Warn};
use plan::FastPaths;

use crate::failure::Failure;
use crate::number::InvalidNumber;
use crate::option::Opt;
use crate::state_root;
use crate::usage::UsageError;
use crate::values::Values;

/// All input of one call of a command.
pub(crate) struct Invocation<'a> {
    /// The process's arguments and environment.
    pub args: sys::Args,
    /// The options before the command.
    pub globals: &'a Values<'a>,
    /// The command's options.
    pub values: &'a Values<'a>,
    /// The positional arguments.
    pub arguments: &'a [&'a str],
    /// The id of the container that the command created from an image; set by the command, empty before.
    pub named: &'a RefCell<String>,
    /// The trace of the command.
    pub trace: &'static Trace,
    /// Writes warnings to the log, or also to standard error.
    pub warn: Warn<'a>,
}

impl<'a> Invocation<'a> {
    /// Returns the container's id.
    pub fn id(&self) -> Result<&'a str, Failure> {
        match self.arguments.first() {
            Some(id) if !id.is_empty() => Ok(id),
            _ => Err(Failure::new("container id cannot be empty")),
        }
    }

    /// Opens the store of containers in the state root.
    pub fn store(&self) -> Result<Store, Failure> {
        let root = state_root::of(self.globals, self.args)?;
        let store = root.open(self.trace)?;
        if root.is_sticky {
            state_root::keep(&root.path)?;
        }
        Ok(store)
    }

    /// Opens the container whose full id is the first argument. Used by commands that engines call: if no container has
    /// this id, the command must not act on another container whose id begins with it.
    pub fn exact_container(&self) -> Result<Container, Failure> {
        Ok(self.store()?.container(self.id()?)?)
    }

    /// Opens the container that the first argument names: by the container's id or, if dayfly generated the id, by the
    /// first digits of the id.
    pub fn container(&self) -> Result<Container, Failure> {
        let id = self.id()?;
        Ok(self.store()?.by_beginning(id)?)
    }

    /// Returns a variable of the environment that is not empty.
    pub fn env(&self, name: &str) -> Option<&'static str> {
        self.args.env(name).filter(|text| !text.is_empty())
    }

    /// Returns the fast paths to use for starts: all except those that `DAYFLY_WITHOUT` lists (for benchmarks).
    pub fn fast_paths(&self) -> Result<FastPaths, Failure> {
        let without = self.args.env(plan::WITHOUT).unwrap_or_default();
        FastPaths::without(without).map_err(Failure::new)
    }

    /// Returns the value of an option that is a count; 0 if the option was not given.
    pub fn count(&self, option: &'static Opt) -> Result<u32, Failure> {
        let Some(number) = self.values.integer(option) else { return Ok(0) };
        number.try_into().map_err(|_| {
            let value = number.to_string();
            Failure::new(UsageError::bad_value(option.long, &value, InvalidNumber::Range))
        })
    }
}
