"""ROOT reads files over HTTP, also where it was built without davix and curl, as its wheel is."""

import threading
from typing import Any

from dolmen.errors import Invalid

#: ROOT's own client for HTTP is in its library Net, but no class of the new interfaces uses it.
_CLASSES = r"""
#include <ROOT/RRawFile.hxx>
#include <TWebFile.h>
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace dolmen {

class WebFile final : public ROOT::Deprecated::TWebFile {
public:
   WebFile(const char *url, const char *) : TWebFile(url, "") {}
};

class RawWebFile final : public ROOT::Internal::RRawFile {
   std::unique_ptr<WebFile> fFile;

   void OpenImpl() final
   {
      fFile = std::make_unique<WebFile>(fUrl.c_str(), "");
      if (fFile->IsZombie())
         throw std::runtime_error("cannot open " + fUrl);
      fOptions.fBlockSize = 0;
   }

   size_t ReadAtImpl(void *into, size_t bytes, std::uint64_t offset) final
   {
      // A file is asked for as many bytes as a number of 31 bits has.
      for (size_t done = 0; done < bytes;) {
         const auto some = static_cast<Int_t>(std::min<size_t>(bytes - done, 1 << 30));
         if (fFile->ReadBuffer(static_cast<char *>(into) + done, static_cast<Long64_t>(offset + done), some))
            throw std::runtime_error("cannot read " + fUrl);
         done += some;
      }
      return bytes;
   }

   std::uint64_t GetSizeImpl() final { return fFile->GetSize(); }

public:
   RawWebFile(std::string_view url, ROptions options) : RRawFile(url, options) {}
   std::unique_ptr<RRawFile> Clone() const final { return std::make_unique<RawWebFile>(fUrl, fOptions); }
};

} // namespace dolmen
"""

_lock = threading.Lock()
_is_done = False


def _is_served(manager: Any, base: str) -> bool:
    handler = manager.FindHandler(base, "http://host/file")
    # The deprecated class is named in a way that its own handler does not find.
    return bool(handler) and "Deprecated" not in str(handler.GetClass()) and handler.LoadPlugin() == 0


def root_over_http() -> None:
    """Has ROOT, in this process, read what is served over HTTP: afterwards ``ROOT.RDataFrame("Events", server.url)`` takes the address that
    ``Ntuple.serve`` tells, and so do ``TFile.Open`` and ``RNTupleReader.Open``.

    A ROOT that was built with davix or curl does that by itself, and is left as it is. Of others, as its wheel on PyPI, the client of its
    library Net is used, which is plain HTTP: the ``http://`` addresses of ``serve``, and no certificates. Raises ImportError without ROOT,
    Invalid for one that has no such client.
    """
    global _is_done
    import ROOT

    with _lock:
        manager = ROOT.gROOT.GetPluginManager()
        bases = ("TFile", "ROOT::Internal::RRawFile")
        if _is_done or all(_is_served(manager, base) for base in bases):
            return
        if ROOT.gSystem.Load("libNet") < 0 or not ROOT.gInterpreter.Declare(_CLASSES):
            raise Invalid("this ROOT has no client for HTTP: neither davix, nor curl, nor its library Net")
        manager.AddHandler("TFile", "^http[s]?:", "dolmen::WebFile", "Net", "WebFile(const char *, const char *)")
        raw = "RawWebFile(std::string_view, ROOT::Internal::RRawFile::ROptions)"
        manager.AddHandler("ROOT::Internal::RRawFile", "^http[s]?:", "dolmen::RawWebFile", "Net", raw)
        _is_done = True
