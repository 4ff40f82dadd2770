"""The folder of the plugin tenon_halves.so, which Tenon searches: the entry point `tenon.plugins` names it."""
