//! A bundle: its directory, and the configuration in it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rustix::fs::CWD;
use spec::Spec;
use sys::Context;
use sys::defence::{Defence, is_off};
use trace::Phase;

use crate::annotations;
use crate::directory::check_id;
use crate::options::CreateOptions;
use crate::path::absolute;
use crate::{Error, Trace, Warn};

/// A bundle's directory and the text of its configuration.
#[derive(Debug)]
pub struct Bundle {
    pub(crate) path: String,
    pub(crate) config: String,
    pub(crate) text: Vec<u8>,
}

impl Bundle {
    pub(crate) fn load(options: &CreateOptions<'_>, trace: &Trace) -> Result<Self, Error> {
        trace.work(Phase::Configuration, "read config", options.bundle, || Self::read(options))
    }

    /// Parses the configuration, and starts the trace that it may request.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn parse(&self, trace: &Trace, warn: Warn<'_>) -> Result<Spec<'_>, Error> {
        let spec = trace.work(Phase::Configuration, "parse config", "", || self.spec(warn))?;
        annotations::without_effect(&spec).for_each(|warning| (warn.print)(&warning));
        trace.heed(spec.annotations.iter().map(|(key, value)| (&**key, &**value)));
        Ok(spec)
    }

    pub(crate) fn read(options: &CreateOptions<'_>) -> Result<Self, Error> {
        check_id(options.id)?;
        Self::open(options.bundle, options.config)
    }

    /// Reads the configuration of the bundle in a directory: the file `config`, if given, or else the bundle's
    /// config.json.
    ///
    /// # Errors
    /// If the configuration is missing, or if it cannot be read.
    pub fn open(bundle: &str, config: Option<&str>) -> Result<Self, Error> {
        let path = absolute(bundle)?;
        let config = match config {
            Some(config) => absolute(config)?,
            None => format!("{}/config.json", path.trim_end_matches('/')),
        };
        let text = match sys::fs::read_at(CWD, config.as_str()) {
            Ok(text) => text,
            Err(sys::Errno::NOENT) => {
                rustix::fs::access(path.as_str(), rustix::fs::Access::EXISTS)
                    .context("chdir", &path)?;
                return Err(Error::NoConfiguration(config));
            }
            Err(errno) => return Err(sys::Error::new("open", config, errno).into()),
        };
        Ok(Self { path, config, text })
    }

    /// Parses the configuration.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn spec(&self, warn: Warn<'_>) -> Result<Spec<'_>, Error> {
        let (mut spec, misspelt) = Spec::parse_and_tell(&self.text)
            .map_err(|error| Error::Parse { path: self.config.clone(), error })?;
        warn.misspelt(&self.config, &misspelt);
        match spec::validate(&spec) {
            Err(spec::Invalid::NetDeviceName(_)) if is_off(Defence::Lengths) => {}
            result => result?,
        }
        spec.strip_root(&self.path);
        Ok(spec)
    }

    /// Returns the parser's error if the configuration is not valid JSON.
    #[cold]
    pub(crate) fn syntax_error(&self) -> Option<Error> {
        let error = Spec::parse_whole(&self.text).err()?;
        Some(Error::Parse { path: self.config.clone(), error })
    }
}
