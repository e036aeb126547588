//! The HTTP client, with every default corrected that would surprise a polite crawl.
//!
//! Off: automatic redirects (each hop is a request of its own), hidden retries, Referer, proxies of the
//! environment, automatic decompression. Bounded: header count and size, idle connections and their age.
//! Roots are the bundled ones plus `extra_roots`, so that a machine without certificates works the same.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Proxy, redirect, retry};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::FetcherError;
use super::resolve::{GuardedResolver, Shared};
use crate::config::NetworkConfig;

/// Headers of one response at most: the library's own limit. A higher one costs two blocks of memory a response.
pub(super) const HEADERS_MAX: usize = 100;
/// Names and values of all headers of one response, in bytes, at most.
pub(super) const HEADER_BYTES_MAX: usize = 64 * 1024;
/// What HTTP/2 may send before the library itself gives up: above our own limit, so that a response
/// between the two is judged (and named) by us.
const H2_HEADER_LIST_MAX: u32 = 4 * 64 * 1024;
/// What a server may send of a body over HTTP/2 before we have read it: it is held in memory, and it is what comes beyond
/// a cap before the stream is reset. Of HTTP/1 the library takes two reads of half a MiB ahead at most; that cannot be set.
const H2_STREAM_WINDOW: u32 = 256 * 1024;
/// The same of all streams of a connection.
const H2_CONNECTION_WINDOW: u32 = 1024 * 1024;
/// How long an idle connection is kept. Short: with thousands of hosts each costs a descriptor.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Builds the client. `idle_per_host` connections to one host are kept open at most; with 0 each request has its own.
pub(super) fn build(
    network: &NetworkConfig,
    idle_per_host: usize,
    resolver: Arc<GuardedResolver>,
) -> Result<Client, FetcherError> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls(&network.extra_roots)?)
        .redirect(redirect::Policy::none())
        // With a most of none it does not even keep a copy of each request.
        .retry(retry::never().max_retries_per_request(0))
        .referer(false)
        .no_proxy()
        .dns_resolver(Shared(resolver))
        .connect_timeout(network.connect_timeout)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(idle_per_host)
        .tcp_nodelay(true)
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .http2_adaptive_window(false)
        .http2_initial_stream_window_size(H2_STREAM_WINDOW)
        .http2_initial_connection_window_size(H2_CONNECTION_WINDOW)
        .http2_max_header_list_size(H2_HEADER_LIST_MAX);
    if let Some(url) = &network.proxy {
        // The error would print the URL, and that may hold a password.
        builder = builder.proxy(Proxy::all(url.clone()).map_err(|_| FetcherError::Proxy)?);
    }
    builder.build().map_err(|error| FetcherError::Client(error.without_url()))
}

/// TLS 1.2 and 1.3 with ring, HTTP/2 or 1.1 as the server likes.
fn tls(extra_roots: &[std::path::PathBuf]) -> Result<ClientConfig, FetcherError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for path in extra_roots {
        add_roots(&mut roots, path)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(FetcherError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Adds the certificates of a PEM file.
fn add_roots(roots: &mut RootCertStore, path: &Path) -> Result<(), FetcherError> {
    let unreadable = |reason: String| FetcherError::Roots { path: path.to_owned(), reason };
    let mut added = 0_u32;
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))? {
        let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        added += 1;
    }
    if added == 0 { Err(unreadable(String::from("there is no certificate in it"))) } else { Ok(()) }
}
