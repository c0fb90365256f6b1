//! Traces for a collector, in builds that have the feature `otlp`.

#[cfg(feature = "otlp")]
pub(crate) use built_in::Export;
#[cfg(not(feature = "otlp"))]
pub(crate) use left_out::Export;

#[cfg(feature = "otlp")]
mod built_in {
    use core::fmt::Write;

    use otlp::{Endpoint, Parent};
    use trace::Timeline;

    /// Who asked for spans, if anybody did.
    #[derive(Debug)]
    pub(crate) struct Export {
        parent: Option<Parent>,
        args: sys::Args,
    }

    impl Export {
        /// What the environment asks for.
        pub fn of(args: sys::Args) -> Self {
            Self { parent: args.env(otlp::VARIABLE).and_then(Parent::parse), args }
        }

        /// Whether anybody asked.
        pub fn is_wanted(&self) -> bool {
            self.parent.is_some()
        }

        /// Sends the spans. A collector that is not there is no reason for a command to fail.
        pub fn send(&self, timeline: &Timeline) {
            let Some(parent) = &self.parent else { return };
            let sent = Endpoint::from_environment(self.args)
                .and_then(|endpoint| otlp::export(timeline, parent, &endpoint));
            if let Err(error) = sent {
                let _ = writeln!(sys::stdio::Stderr, "dayfly: warning: export of spans: {error}");
            }
        }
    }
}

#[cfg(not(feature = "otlp"))]
mod left_out {
    use trace::Timeline;

    /// Nobody can ask.
    #[derive(Debug)]
    pub(crate) struct Export;

    impl Export {
        pub fn of(_: sys::Args) -> Self {
            Self
        }

        pub fn is_wanted(&self) -> bool {
            false
        }

        pub fn send(&self, _: &Timeline) {}
    }
}
