# While ${TOPDIR}/listed is there, do_fetch writes there what it would download, a line for each file: recipe, SHA-256
# (or -), names that the file may have, separated by |, and address. Python 2 and 3: any bitbake.
python base_do_fetch() {
    import os
    import bb.fetch2

    fetcher = bb.fetch2.Fetch((d.getVar("SRC_URI", True) or "").split(), d)
    listed = os.path.join(d.getVar("TOPDIR", True), "listed")
    if not os.path.isdir(listed):
        fetcher.download()
        return
    with open(os.path.join(listed, d.getVar("PN", True)), "w") as file:
        for url in fetcher.urls:
            found = fetcher.ud[url]
            if found.type == "file":
                continue
            names = getattr(found, "mirrortarballs", None) or [getattr(found, "mirrortarball", None)]
            names = [name for name in names if name] or [os.path.basename(found.localpath)]
            digest = getattr(found, "sha256_expected", None) or "-"
            file.write("%s\t%s\t%s\t%s\n" % (d.getVar("PN", True), digest, "|".join(names), url.split(";")[0]))
}
