import argparse, asyncio, base64, concurrent.futures, csv, dataclasses, datetime, decimal, email.message
import hashlib, html.parser, http.client, http.server, inspect, json, logging.config, multiprocessing
import random, sqlite3, ssl, statistics, unittest, urllib.request, uuid, xml.etree.ElementTree
