//! The certificates that this system trusts: for connections to hosts, and for the bundle that agents get.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Length of a line of a certificate's text.
const LINE: usize = 64;

/// Certificates that are trusted.
pub(super) struct Roots(Vec<CertificateDer<'static>>);

impl Roots {
    /// Reads the certificates of the system, and those of a file if one is named.
    pub(super) fn read(more: Option<&Path>) -> Self {
        let found = rustls_native_certs::load_native_certs();
        if let Some(error) = found.errors.first() {
            tracing::warn!(%error, "some of the system's certificates cannot be read");
        }
        let mut all = found.certs;
        match more.map(CertificateDer::pem_file_iter) {
            Some(Ok(certificates)) => all.extend(certificates.flatten()),
            Some(Err(error)) => tracing::warn!(%error, "cannot read more certificates"),
            None => {}
        }
        Self(all)
    }

    pub(super) fn pem(&self) -> String {
        self.0.iter().map(|certificate| pem(certificate)).collect()
    }

    /// What verifies servers with them. Only HTTP/1.1 is offered.
    ///
    /// # Errors
    /// If TLS cannot be set up.
    pub(super) fn client(&self) -> Result<Arc<ClientConfig>, rustls::Error> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(self.0.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = builder.with_root_certificates(store).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The text of a certificate.
pub(super) fn pem(certificate: &[u8]) -> String {
    let encoded = STANDARD.encode(certificate);
    let lines: Vec<&str> = encoded.as_bytes().chunks(LINE).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
