from assay import sites

site_configuration = sites.from_yaml(__file__)
