//! Where WhatsApp is. Only builds for tests know of another place than WhatsApp's.

use whatsapp_rust::http::UreqHttpClient;
use whatsapp_rust::transport::TokioWebSocketTransportFactory;

use crate::pace::Pace;
use crate::session::Builder;

/// Largest answer to a request in bytes: a file with its encryption.
const BODY_BYTES: u64 = hearth_bridge::FILE_BYTES_MAX + 1024;

/// WhatsApp's servers, or a stand-in for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Server {
    #[default]
    WhatsApp,
    /// On this machine. Its port has a WebSocket and files.
    #[cfg(debug_assertions)]
    StandIn(std::net::SocketAddr),
}

impl Server {
    /// Reads the address of a stand-in; none in builds that are used.
    #[cfg(debug_assertions)]
    pub(crate) fn stand_in(text: &str) -> Option<Self> {
        text.parse().ok().filter(|address: &std::net::SocketAddr| address.ip().is_loopback()).map(Self::StandIn)
    }

    /// Reads the address of a stand-in; none in builds that are used.
    #[cfg(not(debug_assertions))]
    pub(crate) fn stand_in(_: &str) -> Option<Self> {
        None
    }

    /// How fast the bridge may send.
    pub(crate) fn pace(self) -> Pace {
        match self {
            Self::WhatsApp => Pace::slow(),
            #[cfg(debug_assertions)]
            Self::StandIn(_) => Pace::any(),
        }
    }

    /// Lets a session use it.
    pub(crate) fn equip(self, builder: Builder) -> Builder {
        let (transport, http) =
            (TokioWebSocketTransportFactory::new(), UreqHttpClient::new().with_max_body_bytes(BODY_BYTES));
        match self {
            Self::WhatsApp => builder.with_transport_factory(transport).with_http_client(http),
            #[cfg(debug_assertions)]
            Self::StandIn(address) => builder
                .with_transport_factory(transport.with_url(format!("ws://{address}/ws")))
                .with_http_client(stand_in::Http { http, address })
                .with_version((2, 3_000, 1)),
        }
    }
}

#[cfg(debug_assertions)]
mod stand_in {
    use std::net::SocketAddr;

    use whatsapp_rust::http::{HttpClient, HttpRequest, HttpResponse, UreqHttpClient};
    use whatsapp_rust::{anyhow, async_trait};

    /// Asks the stand-in instead of the host that a request names.
    pub(super) struct Http {
        pub(super) http: UreqHttpClient,
        pub(super) address: SocketAddr,
    }

    #[async_trait]
    impl HttpClient for Http {
        async fn execute(&self, mut request: HttpRequest) -> anyhow::Result<HttpResponse> {
            let rest = request.url.strip_prefix("https://").unwrap_or_default();
            let path = rest.split_once('/').map_or("", |(_, path)| path);
            request.url = format!("http://{}/{path}", self.address);
            self.http.execute(request).await
        }
    }
}
