//! Remembers the host that a request was sent to last: a registry may redirect a request to another host, and an error
//! must name the host that does not answer.

use std::cell::RefCell;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

thread_local! {
    /// The host, with its port if the URL has one, whose address this thread has looked up last.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The HTTP client's own resolver, which remembers the host.
#[derive(Debug, Default)]
pub struct Remembering(DefaultResolver);

impl Resolver for Remembering {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        LAST.set(uri.authority().map(|host| host.as_str().to_owned()));
        self.0.resolve(uri, config, timeout)
    }
}

/// Makes a request; also returns the host that it was sent to last, if a connection was made for it.
pub fn last_asked<T>(call: impl FnOnce() -> T) -> (T, Option<String>) {
    LAST.take();
    let result = call();
    (result, LAST.take())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use ureq::Agent;
    use ureq::unversioned::transport::DefaultConnector;

    #[test]
    fn a_redirect_leads_to_the_last_host() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = format!("http://{}/", server.local_addr().unwrap());
        let answer = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines
                .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                .for_each(drop);
            write!(
                stream,
                "HTTP/1.1 307 Elsewhere\r\nlocation: http://{unused}/x\r\ncontent-length: 0\r\n\r\n"
            )
            .unwrap();
        });
        let config = Agent::config_builder().proxy(None).build();
        let agent = Agent::with_parts(config, DefaultConnector::default(), Remembering::default());
        let (answered, host) = last_asked(|| agent.get(&url).call());
        assert!(answered.is_err());
        assert_eq!(host, Some(unused.to_string()));
        answer.join().unwrap();
    }
}
