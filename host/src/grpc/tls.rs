//! TLS of the gRPC port: certificates from PEM files, read once at the start, and clients' certificates where they are asked
//! for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tokio_rustls::TlsAcceptor;

use crate::settings::TlsFiles;

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not what it should be.
    #[error("reading {what} from {}: {error}; it must be a PEM file", path.display())]
    File {
        /// What it should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        error: pem::Error,
    },
    /// Certificate and key do not go together, or are of a kind that is not known.
    #[error("serving gRPC over TLS with {}: {error}", path.display())]
    Certificate {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        error: rustls::Error,
    },
    /// The certificates that sign those of clients cannot be used.
    #[error("verifying clients with {}: {error}", path.display())]
    Roots {
        /// Their file.
        path: PathBuf,
        /// Why.
        error: String,
    },
}

/// Accepts TLS connections that speak HTTP/2. Blocks while it reads.
///
/// # Errors
/// A [`TlsError`] naming the file.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let unusable = |error| TlsError::Certificate { path: files.certificate.clone(), error };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    let builder = match &files.client_roots {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(client_verifier(path, provider)?),
    };
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.map_err(|error| TlsError::File { what: "a private key", path: files.key.clone(), error })?;
    let chain = certificates(&files.certificate)?;
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn client_verifier(
    path: &Path,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let unusable = |error: String| TlsError::Roots { path: path.to_owned(), error };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| unusable(error.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unreadable = |error| TlsError::File { what: "certificates", path: path.to_owned(), error };
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect();
    let read = read.map_err(unreadable)?;
    if read.is_empty() { Err(unreadable(pem::Error::NoItemsFound)) } else { Ok(read) }
}
